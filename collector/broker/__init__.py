"""The path of a batch through Kafka: a front that produces messages, and a consumer.

The consumer counts the messages. Reports are checked and counted by the same code as without a
broker.
"""
