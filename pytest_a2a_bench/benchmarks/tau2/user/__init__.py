"""The user that needs no language model, as a pure function of the task and of what the agent says.

``scenario`` makes a task's instructions what a customer would say of them, ``facts`` types what this customer knows,
``asks`` reads what an agent's text wants, ``proposals`` judges what it offers to do, ``device`` finds the one thing to
do for an instruction, ``words`` is what several of these listen for, and ``script`` is the conversation. None of them
knows tau2's classes: ``tau2/scripted`` does.
"""
