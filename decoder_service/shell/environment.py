"""Names of environment variables, in a module that imports nothing, since processes read them
first."""

PREFIX = "RAPPOR_DECODER_"
PARENT_VARIABLE = f"{PREFIX}PARENT"  # a worker names itself to the process that forks its jobs
