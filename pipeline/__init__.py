"""Fast neural machine translation decoding: corpus, teacher, distillation, students, and one honest table."""

__version__ = "0.1.0"
