"""The A2A client: one async core on a shared loop thread, with a small synchronous facade.

Requests are written and read by thin code of our own rather than through a2a-sdk's client: that one hides status
codes and ``Retry-After``, and cannot read every real server. Only gRPC borrows a2a-sdk's protobuf types.

Sections (§) named in comments are those of the A2A specification 1.0.
"""
