"""The way of a batch through Kafka, or what speaks its protocol: a front that produces, a consumer
that counts. Reports are judged and counted by the code that counts them without a broker.
"""
