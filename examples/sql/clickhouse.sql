-- Sum the sealed blocks of a window to a file for `rappor decode --aggregate` (ClickHouse, chdb 4.4).
WITH parts AS (SELECT * FROM file('/srv/archive/entries/metric=homepage/*/*.json', JSONEachRow, 'metric String,
      params_id String, definition String, first_day Date, last_day Date, file String')
    WHERE first_day >= '2026-11-18' AND last_day <= '2026-11-24'),
  newest AS (SELECT *, JSONExtractRaw(definition, 'params') AS params, range(JSONExtractUInt(params, 'num_bits')) AS b,
    range(JSONExtractUInt(params, 'num_cohorts')) AS c FROM parts ORDER BY first_day DESC LIMIT 1),
  counted AS (SELECT cohort, count() AS reports, sumForEach(arrayMap(i -> toUInt64(bitTest(
      reinterpretAsUInt8(substring(bits, intDiv(i, 8) + 1, 1)), i % 8)), (SELECT b FROM newest))) AS ones
    FROM file('/srv/archive/reports/metric=homepage/*/*/*.parquet', Parquet, 'cohort Int32, bits String')
    WHERE _file IN (SELECT splitByChar('/', file)[-1] FROM parts) GROUP BY cohort),
  (SELECT (groupArray(cohort), groupArray(reports), groupArray(ones)) FROM counted) AS found
SELECT concat('{"version":1,"metric":', toJSONString(metric), ',"definition":', definition, ',"params_id":',
  toJSONString(params_id), ',"params":', params, ',"first_day":"', toString((SELECT min(first_day) FROM parts)),
  '","last_day":"', toString((SELECT max(last_day) FROM parts)), '","reports_per_cohort":',
  toString(arrayMap(i -> found.2[indexOf(found.1, i)], c)), ',"bit_counts":', toString(arrayMap(
    i -> if(has(found.1, i), found.3[indexOf(found.1, i)], arrayMap(j -> 0, b)), c)), '}') FROM newest FORMAT TSVRaw;
