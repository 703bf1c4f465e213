-- A leaderboard over files of `a2a-bench assess --once AGENT -o` and `a2a-bench export leaderboard`.
-- AgentBeats reads them as: read_json_auto('results/*.json') AS results
SELECT
    results.participants.agent AS id, -- the id of the agent on AgentBeats; always the first column
    r.domain AS "Domain",
    ROUND(100 * SUM(r.score) / SUM(r.max_score), 1) AS "Pass rate %",
    ROUND(SUM(r.score), 2) AS "Score",
    CAST(SUM(r.max_score) AS INTEGER) AS "Of",
    CAST(SUM(r.errors.count) AS INTEGER) AS "Errors",
    ROUND(SUM(r.time_used), 1) AS "Seconds"
FROM results CROSS JOIN UNNEST(results.results) AS t(r)
GROUP BY ALL
ORDER BY "Domain", "Pass rate %" DESC, id;
