"""What params.yaml may say of a family, a file per kind (no torch here).

A file has one name to offer, `Settings`, a subclass of `pipeline.families.settings.FamilySettings`. The file of the
same name beside this package has the kind's LightningModule, called after it (`masked.py`: `MaskedModule`). A new kind
is therefore two files, one without torch and one with Lightning, and nothing lists it.
"""
