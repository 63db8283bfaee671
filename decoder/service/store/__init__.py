"""Tables and statements of the service: plain functions on a connection, typed rows."""
