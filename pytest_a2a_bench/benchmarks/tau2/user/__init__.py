"""The user that needs no language model, as a pure function of the task and of what the agent says.

``scenario`` makes a task's instructions what a customer would say of them and types what it knows, ``understand`` reads
what an agent's text says and wants, ``decide`` judges what it offers to do, ``device`` finds the one thing to do for an
instruction, and ``script`` is the conversation; ``fault`` says whether a user played badly. None of them knows tau2's
classes: ``tau2/scripted`` does.
"""
