"""What a run shows and leaves: terminal, page, Markdown, annotations."""
