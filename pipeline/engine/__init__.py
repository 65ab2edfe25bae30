"""The inference engine: compiled searches on a CPU, static steps on a GPU, behind one door (`door.py`, `README.md`)."""
