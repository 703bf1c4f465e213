"""Controllers, single assessments and leaderboard files, in the form of the AgentBeats platform."""
