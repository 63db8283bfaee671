ALTER TABLE jobs RENAME COLUMN operation TO kind;
ALTER TABLE jobs ADD COLUMN checks VARCHAR(16) REFERENCES results (id);
ALTER TABLE jobs ADD COLUMN check_key VARCHAR(16) NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
DROP INDEX jobs_live;
CREATE UNIQUE INDEX jobs_live ON jobs (owner, spec_digest, check_key) WHERE state IN ('queued',
    'running', 'cancelling');
ALTER TABLE aggregates ADD COLUMN num_cohorts INTEGER;
ALTER TABLE aggregates ADD COLUMN own_values BOOLEAN;
ALTER TABLE schedules ADD COLUMN family VARCHAR(16) NOT NULL DEFAULT 'window';
ALTER TABLE schedules DROP COLUMN problem;
ALTER TABLE results DROP COLUMN operation;
ALTER TABLE alarms ADD COLUMN channel VARCHAR(16) NOT NULL DEFAULT 'webhook';
ALTER TABLE alarms ADD COLUMN secret VARCHAR(64) NOT NULL DEFAULT '';
UPDATE alembic_version SET version_num = '0013_daily_series';
INSERT INTO results (id, key, input_digest, kind, metric, params_id, version, manifest, summary,
    released, created) VALUES ('r', 'k', 'd', 'decode', 'page', 'p', '0.3.0', '{}', '{}', :no, 1);
INSERT INTO result_files VALUES ('r', 'results.json', 's', 1, :content);
INSERT INTO schedules (id, name, owner, metric, every, spec, enabled, created) VALUES ('s',
    'daily', :person, 'page', 'day', :spec, :yes, 1);
INSERT INTO alarms (id, schedule_id, name, target, rules, show_values, created) VALUES ('a', 's',
    'ops', 'https://hook.example/', :rules, :no, 1);
CREATE TABLE readings (day VARCHAR(10) PRIMARY KEY);
CREATE TABLE schedule_statuses (schedule_id VARCHAR(16) PRIMARY KEY);
INSERT INTO alarm_events (id, alarm_id, cause, body, state, due, created, tries, reason) VALUES
    ('e', 'a', 'failed:p', '{}', 'sent', 1, 1, 1, ''), ('f', 'a', 'refused:2026-11-02', '{}',
    'waiting', 1, 1, 0, '');
INSERT INTO aggregates (sha256, metric, params_id, num_reports, content, created) VALUES ('g',
    'page', 'p', 9, :content, 1);
INSERT INTO aggregate_readers VALUES ('g', :person);
INSERT INTO schedule_windows VALUES ('s', 'd', 'p', '2026-11-02', '2026-11-02', 9, 'done', 1,
    NULL, 'r');
CREATE TABLE daily_series (metric VARCHAR(256) PRIMARY KEY, enabled BOOLEAN NOT NULL, list_id
    VARCHAR(16), asked VARCHAR(64) NOT NULL, job_id VARCHAR(16), result_id VARCHAR(16), problem
    TEXT NOT NULL);
INSERT INTO daily_series VALUES ('page', :yes, 'aaaaaaaaaaaaaaaa', 'asked', NULL, 'r', '');
INSERT INTO daily_series VALUES ('theme', :no, NULL, 'asked', NULL, 'r', '');
