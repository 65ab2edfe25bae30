"""The settings of families in params.yaml, one file per kind, without torch.

Each file defines `Settings`, a subclass of `pipeline.families.settings.FamilySettings`. The file of the same name in
the folder above has the kind's LightningModule, named after it (`masked.py`: `MaskedModule`). A new kind is therefore
two files, one without torch and one with Lightning, and no list names it.
"""
