"""``crm-official``: CRMArena as its published code runs it, with the texts of the user's own checkout."""
