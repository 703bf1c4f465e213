"""What judging an agent costs it, known before the first message: plans, profiles and budgets."""
