"""Fast neural machine translation decoding: corpus, teacher, distillation, students, and their comparison."""

__version__ = "0.1.0"
