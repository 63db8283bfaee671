CREATE TABLE state (id INTEGER NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (id));
INSERT INTO state VALUES (1, 0);
CREATE TABLE metrics (
    name VARCHAR(128) NOT NULL, params_id VARCHAR(32) NOT NULL, position INTEGER NOT NULL,
    definition TEXT NOT NULL, retired BOOLEAN NOT NULL, PRIMARY KEY (name, params_id)
);
CREATE TABLE associations (
    name VARCHAR(128) NOT NULL, params_id VARCHAR(32) NOT NULL, position INTEGER NOT NULL,
    definition TEXT NOT NULL, retired BOOLEAN NOT NULL, PRIMARY KEY (name, params_id)
);
CREATE TABLE frontiers (
    metric VARCHAR(128) NOT NULL, closed_through INTEGER NOT NULL, PRIMARY KEY (metric)
);
CREATE TABLE series (
    id {number} NOT NULL, name VARCHAR(128) NOT NULL, params_id VARCHAR(32) NOT NULL,
    metric VARCHAR(128) NOT NULL, PRIMARY KEY (id), UNIQUE (name, params_id)
);
CREATE TABLE counters (
    series_id INTEGER NOT NULL, day INTEGER NOT NULL, shard INTEGER NOT NULL,
    cohort INTEGER NOT NULL, num_reports BIGINT NOT NULL, counts {bytes} NOT NULL,
    PRIMARY KEY (series_id, day, shard, cohort), FOREIGN KEY (series_id) REFERENCES series (id)
) {without_rowid};
CREATE TABLE blocks (
    id {number} NOT NULL, series_id INTEGER NOT NULL, first_day INTEGER NOT NULL,
    last_day INTEGER NOT NULL, num_reports BIGINT NOT NULL, sealed BOOLEAN NOT NULL,
    PRIMARY KEY (id), UNIQUE (series_id, first_day), FOREIGN KEY (series_id) REFERENCES series (id)
);
CREATE TABLE block_counts (
    block_id INTEGER NOT NULL, cohort INTEGER NOT NULL, num_reports BIGINT NOT NULL,
    counts {bytes} NOT NULL, PRIMARY KEY (block_id, cohort),
    FOREIGN KEY (block_id) REFERENCES blocks (id)
) {without_rowid};
CREATE TABLE linked_days (
    block_id INTEGER NOT NULL, cohort INTEGER NOT NULL, day INTEGER NOT NULL,
    PRIMARY KEY (block_id, cohort, day), FOREIGN KEY (block_id) REFERENCES blocks (id)
) {without_rowid};
CREATE TABLE raw_reports (
    series_id INTEGER NOT NULL, day INTEGER NOT NULL, cohort INTEGER NOT NULL,
    mark {bytes} NOT NULL, bits {bytes} NOT NULL, PRIMARY KEY (series_id, day, cohort, mark),
    FOREIGN KEY (series_id) REFERENCES series (id)
) {without_rowid};
CREATE TABLE keys (
    key_id VARCHAR(16) NOT NULL, scope VARCHAR(16) NOT NULL, label VARCHAR(200) NOT NULL,
    secret_hash {bytes} NOT NULL, created INTEGER NOT NULL, revoked INTEGER, PRIMARY KEY (key_id)
);
CREATE TABLE audit (
    id {number} NOT NULL, at VARCHAR(32) NOT NULL, actor VARCHAR(64) NOT NULL,
    act VARCHAR(64) NOT NULL, detail TEXT NOT NULL, PRIMARY KEY (id)
);
CREATE TABLE broker_positions (
    topic VARCHAR(249) NOT NULL, "partition" INTEGER NOT NULL, next_offset BIGINT NOT NULL,
    PRIMARY KEY (topic, "partition")
) {without_rowid};
CREATE TABLE broker_skipped (
    topic VARCHAR(249) NOT NULL, "partition" INTEGER NOT NULL, first_offset BIGINT NOT NULL,
    last_offset BIGINT NOT NULL, reason VARCHAR(32) NOT NULL,
    PRIMARY KEY (topic, "partition", first_offset)
) {without_rowid};
CREATE TABLE broker_state (
    id INTEGER NOT NULL, counted_before INTEGER NOT NULL, ignored_before INTEGER NOT NULL,
    refused BIGINT NOT NULL, PRIMARY KEY (id)
);
