"""Fast neural machine translation decoding: corpus, teacher, distillation, students, and one honest table."""

import hashlib
import os
from pathlib import Path

__version__ = "0.1.0"


def machine_code(package: Path) -> Path:
    """Where numba keeps what it has compiled: a folder for every state of the files with compiled functions.

    numba looks only at the file of a function to see whether its machine code is still true, but functions here call
    those of other files, and those become a part of them.
    """
    sources = (path.read_bytes() for path in sorted(package.glob("*/*.py")))
    state = hashlib.sha256(b"\0".join(source for source in sources if b"import njit" in source))
    return package / "__pycache__" / f"numba-{state.hexdigest()[:16]}"


os.environ.setdefault("NUMBA_CACHE_DIR", str(machine_code(Path(__file__).parent)))
