"""The built-in test modules. They are ordinary pytest files: read them, copy them into your project, change them."""
