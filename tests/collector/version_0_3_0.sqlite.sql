CREATE TABLE batches (
    batch_hash BLOB NOT NULL, digest BLOB NOT NULL, expires INTEGER NOT NULL,
    num_reports INTEGER NOT NULL, results BLOB NOT NULL, PRIMARY KEY (batch_hash)
) WITHOUT ROWID;
