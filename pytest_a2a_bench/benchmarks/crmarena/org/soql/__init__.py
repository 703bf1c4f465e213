"""SOQL, from text to parameterised SQLite: lexer, parser, names, conditions, select."""
