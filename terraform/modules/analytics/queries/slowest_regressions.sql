-- Which series got slower: each one's latest run against the median of all its earlier jobs, worst first
WITH jobs AS (
  SELECT *, run_id = first_value(run_id) OVER (series ORDER BY recorded_at DESC, run_id DESC) AS is_latest
  FROM history
  WHERE status = 'measured' AND parameters NOT LIKE '%"metric":%' -- seconds, not what your own job told
  WINDOW series AS (PARTITION BY ${series})
),
ranked AS (
  SELECT
    *,
    row_number() OVER (side ORDER BY median_seconds) AS place,
    count(*) OVER side AS jobs_of_side,
    max(median_seconds) OVER side AS slowest_seconds
  FROM jobs
  WINDOW side AS (PARTITION BY ${series}, is_latest)
),
medians AS (
  SELECT
    ${series},
    max(run_id) FILTER (WHERE is_latest) AS latest_run_id,
    max(recorded_at) FILTER (WHERE is_latest) AS latest_recorded_at,
    avg(median_seconds) FILTER (WHERE is_latest) AS latest_seconds,
    avg(median_seconds) FILTER (WHERE NOT is_latest) AS earlier_seconds,
    max(slowest_seconds) FILTER (WHERE NOT is_latest) AS earlier_slowest_seconds,
    max(jobs_of_side) FILTER (WHERE is_latest) AS latest_jobs,
    max(jobs_of_side) FILTER (WHERE NOT is_latest) AS earlier_jobs
  FROM ranked
  WHERE 2 * place BETWEEN jobs_of_side AND jobs_of_side + 2 -- the middle one or two: the exact median
  GROUP BY ${series}
)
SELECT
  ${series},
  latest_seconds / earlier_seconds AS slowdown,
  latest_seconds,
  earlier_seconds,
  earlier_slowest_seconds,
  latest_jobs,
  earlier_jobs,
  latest_run_id,
  latest_recorded_at
FROM medians
WHERE latest_seconds > earlier_seconds
ORDER BY slowdown DESC
LIMIT 100
