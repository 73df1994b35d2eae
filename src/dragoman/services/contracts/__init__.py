"""Contract work: documents and their versions, templates, redlines, what was executed, and closing checklists."""
