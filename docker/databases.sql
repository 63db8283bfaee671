-- Run once, when PostgreSQL makes its volume: the decoder service has a database of its own.
CREATE DATABASE decoder OWNER rappor;
