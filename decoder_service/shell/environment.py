"""Names of environment variables. Loads nothing: a process reads them before all else."""

PREFIX = "RAPPOR_DECODER_"
PARENT_VARIABLE = f"{PREFIX}PARENT"  # a worker names itself to the process that forks its jobs
