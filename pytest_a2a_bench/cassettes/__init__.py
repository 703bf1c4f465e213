"""Conversations kept as files, and run again without the agent.

A cassette is what went over the boundary between this package and the agent in one trial: each request as the client
meant it, and the events of its answer. That is above the bindings, so that one recorded over gRPC is replayed like one
recorded over JSON-RPC. Only the agent is replayed: environment, scripted user and evaluator work as ever.
"""
