"""The CPU inference engine: networks and searches, compiled, behind one door (`door.py`; see `README.md`)."""
