"""SOSL, from text to parameterised SQLite: the search expression, the parser, the compiler."""
