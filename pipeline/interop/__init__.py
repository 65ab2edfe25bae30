"""The same models in other libraries' formats."""
