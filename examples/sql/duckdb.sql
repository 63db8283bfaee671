-- Sum the sealed blocks of a window to a file for `rappor decode --aggregate` (DuckDB 2.0).
COPY (
  WITH parts AS (FROM read_json('/srv/archive/entries/metric=homepage/*/*.json', columns = {metric: 'VARCHAR', file:
      'VARCHAR', params_id: 'VARCHAR', definition: 'JSON', first_day: 'DATE', last_day: 'DATE'})
    WHERE first_day >= '2026-11-18' AND last_day <= '2026-11-24'),
  newest AS (SELECT *, definition->'params' AS params, range((params->>'num_cohorts')::INT) AS all_cohorts,
    range((params->>'num_bits')::INT) AS all_bits FROM parts ORDER BY first_day DESC LIMIT 1),
  counted AS (
    SELECT cohort, bit, count(*) AS reports, sum(get_bit(bits::BIT, (bit // 8 * 8 + 7 - bit % 8)::INT)) AS ones
    FROM read_parquet('/srv/archive/reports/metric=homepage/*/*/*.parquet', filename = true),
      (SELECT unnest(all_bits) AS bit FROM newest)
    WHERE parse_filename(filename) IN (SELECT parse_filename(file) FROM parts) GROUP BY ALL),
  cohorts AS (SELECT c, coalesce(any_value(reports), 0) AS reports, list(coalesce(ones, 0)::BIGINT ORDER BY b) AS ones
    FROM (SELECT c, unnest(all_bits) AS b FROM (SELECT unnest(all_cohorts) AS c, all_bits FROM newest))
    LEFT JOIN counted ON cohort = c AND bit = b GROUP BY c)
  SELECT 1 AS version, metric, definition, params_id, params, (SELECT min(first_day)::VARCHAR FROM parts) AS first_day,
    (SELECT max(last_day)::VARCHAR FROM parts) AS last_day, (SELECT list(reports ORDER BY c) FROM cohorts) AS
    reports_per_cohort, (SELECT list(ones ORDER BY c) FROM cohorts) AS bit_counts FROM newest
) TO 'homepage.json';
