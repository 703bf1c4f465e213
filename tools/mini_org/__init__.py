"""The built-in org: a fictional company made by a seeded generator, with tasks whose answers follow from its making."""
