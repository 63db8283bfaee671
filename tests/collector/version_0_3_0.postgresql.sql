CREATE TABLE batch_partitions (id INTEGER NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (id));
CREATE SEQUENCE batch_partition_ids;
CREATE TABLE batches (
    batch_hash bytea NOT NULL, digest bytea NOT NULL, partition_id integer NOT NULL,
    num_reports integer NOT NULL, results bytea NOT NULL
) PARTITION BY LIST (partition_id);
CREATE UNLOGGED TABLE rate_limits (
    name BYTEA NOT NULL, full_at DOUBLE PRECISION NOT NULL, changed_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (name)
);
