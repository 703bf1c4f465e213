"""What a platform does around an assessment: it keeps agents, asks an assessor, and fills its leaderboard."""
