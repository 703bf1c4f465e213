"""The user that needs no language model, as a pure function of the task and of the agent's messages.

``scenario`` turns a task's instructions into a customer's words and typed facts, ``understand`` reads
what an agent's text says and wants, ``decide`` judges what it offers to do, ``device`` finds the one thing to do for an
instruction, and ``script`` is the conversation; ``fault`` says whether a user played badly. None of them knows tau2's
classes: ``tau2/scripted`` does.
"""
