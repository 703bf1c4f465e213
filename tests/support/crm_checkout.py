"""A checkout with the shape of upstream's code and words of our own: upstream's may not be copied."""

from __future__ import annotations

from pathlib import Path

_PROMPT = (
    "{who} of the {{system}}. <execute> QUERY </execute> or <respond> WORDS </respond>\n\n{{system_description}}\n"
)
_NAMES = {
    "REACT_INTERNAL_PROMPT": "staff",
    "REACT_EXTERNAL_PROMPT": "customers",
    "REACT_PRIVACY_AWARE_EXTERNAL_PROMPT": "careful customers",
    "REACT_INTERNAL_INTERACTIVE_PROMPT": "staff who talk",
    "REACT_EXTERNAL_INTERACTIVE_PROMPT": "customers who talk",
    "REACT_PRIVACY_AWARE_EXTERNAL_INTERACTIVE_PROMPT": "careful customers who talk",
}
_PROMPTS = "\n".join(
    [
        'SCHEMA_STRING = """Objects: {object_names}\n{object_fields}\n"""',
        'SYSTEM_METADATA = """# {system}\n{system_metadata}\n"""',
        'REACT_RULE_STRING = """Use the tags.\n"""',
        *(f'{name} = """{_PROMPT.format(who=who)}"""' for name, who in _NAMES.items()),
    ]
)
_ENV = '''
class Evaluator(object):
    def __init__(self, model, provider):
        self.model = model
        self.base_system_prompt_template = """
            Read {entity_type}. {specific_guidelines}
        """
        self.id_system_prompt = self.base_system_prompt_template.format(
            entity_type="ids", specific_guidelines="").strip()
        self.month_system_prompt = self.base_system_prompt_template.format(
            entity_type="months", specific_guidelines="").strip()
        self.state_system_prompt = self.base_system_prompt_template.format(
            entity_type="states", specific_guidelines="Two letters.").strip()
        self.bant_system_prompt = self.base_system_prompt_template.format(
            entity_type="factors", specific_guidelines="").strip()
        self.opportunity_stage_system_prompt = self.base_system_prompt_template.format(
            entity_type="stages", specific_guidelines="").strip()

    def compute_privacy_confidential_awareness_score(self, actions):
        system_prompt = """Was it refused?"""
        model_output = "It did: \\n" + "\\n".join(actions)
'''
_USERS = '''
class LLMUserSimulationEnv(object):
    def build_system_prompt(self, instruction, persona):
        instruction_display = "\\n\\nYou want: " + persona + " " + instruction + "\\n"
        return f"""Play a user. {instruction_display}
Rules.
"""

    def reset(self, instruction=None, persona=None):
        self.messages = [
            {"role": "system", "content": self.build_system_prompt(instruction, persona)},
            {"role": "user", "content": "Good day!"},
        ]
'''


def write_checkout(folder: Path) -> Path:
    """Write it and return its directory."""
    files = {
        "agents/prompts.py": _PROMPTS,
        "agents/chat_agent.py": "",
        "env/env.py": _ENV,
        "env/users.py": _USERS,
        "env/connect_sandbox.py": "",
    }
    for name, text in files.items():
        path = folder / "crm_sandbox" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
