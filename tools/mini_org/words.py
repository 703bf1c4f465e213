"""The fictional company's vocabulary: names, places, products and complaints, all made up for this project."""

from __future__ import annotations

COMPANY = "Larkfield Instruments"

FIRST_NAMES = (
    "Ada", "Bram", "Celia", "Dario", "Edda", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Kira", "Leon", "Mara", "Nils",
    "Oona", "Pavel", "Quinn", "Rosa", "Sven", "Tilda", "Umar", "Vera", "Wim", "Xenia", "Yara", "Zeno",
)  # fmt: skip
LAST_NAMES = (
    "Abeling", "Brandt", "Corvin", "Dallow", "Eskola", "Farrow", "Grieg", "Hollis", "Ivarsen", "Jessop", "Kestrel",
    "Lindqvist", "Marlow", "Norling", "Okoro", "Pemberly", "Quist", "Renner", "Saltley", "Thorne", "Ulvang",
    "Vantongeren", "Wexley", "Yardley", "Zimmer",
)  # fmt: skip
FIRM_HEADS = (
    "Alder", "Beacon", "Cinder", "Dovetail", "Elmbridge", "Foxglove", "Granite", "Harbour", "Ironwood", "Juniper",
    "Kelp", "Lantern", "Millrace", "Nettle", "Orchard", "Pewter", "Quarry", "Rowan", "Saffron", "Tallow",
)  # fmt: skip
FIRM_TAILS = ("Foods", "Paper", "Textiles", "Waterworks", "Dairies", "Glass", "Shipyards", "Breweries")
INDUSTRIES = ("Food", "Paper", "Textiles", "Utilities", "Dairy", "Glass", "Shipbuilding", "Beverages")

TERRITORIES = (
    ("Pacific", ("CA", "OR", "WA", "NV", "AZ", "HI", "AK")),
    ("Mountain and Plains", ("CO", "UT", "ID", "MT", "WY", "NM", "ND", "SD", "NE", "KS")),
    ("Gulf", ("TX", "LA", "OK", "AR", "MS", "AL")),
    ("Great Lakes", ("IL", "MI", "OH", "IN", "WI", "MN", "IA", "MO")),
    ("Northeast", ("NY", "NJ", "PA", "MA", "CT", "RI", "NH", "VT", "ME")),
    ("Southeast", ("FL", "GA", "SC", "NC", "TN", "KY", "VA", "WV", "MD", "DE")),
)
OUTSIDE_STATES = ("PR", "GU", "VI", "AS")
"""Of leads whom no territory has."""
ACCOUNT_STATES = ("CA", "OR", "TX", "IL", "NY", "FL", "CO", "OH", "GA", "WA")

PRODUCT_KINDS = (
    "pressure sensor", "flow meter", "valve actuator", "pump controller", "vibration monitor", "humidity probe",
    "gas detector", "data logger", "level switch", "heat exchanger gauge",
)  # fmt: skip
PRODUCT_HEADS = (
    "Norvane", "Tessel", "Quillon", "Brisa", "Havok", "Ombra", "Pelago", "Sarto", "Ventoso", "Zephra", "Cadmea",
    "Dorset", "Elytra", "Fenwick", "Gavotte", "Isobar", "Kyanite", "Lumen", "Mistral", "Oriel",
)  # fmt: skip
UNKNOWN_HEADS = ("Ardesia", "Bolide", "Cirrus", "Drumlin")
"""Of products that customers believe to be ours."""
USES = ("bottling lines", "boiler rooms", "paper mills", "cold stores", "dry docks", "pumping stations")

ISSUES = (
    ("Readings drift", "the reading wanders away from the reference"),
    ("No connection", "it cannot be reached from the control room"),
    ("Wrong delivery", "the parcel held another article than ordered"),
    ("Loose housing", "the cover came off in normal use"),
    ("Late alarm", "the alarm sounded long after the limit was passed"),
    ("Billing error", "the invoice shows a price that was never agreed"),
    ("Firmware fails", "the update stops halfway and starts again"),
    ("Missing manual", "no instructions came with the device"),
)
"""Name, and the complaint in the customer's words, which the issue's description quotes."""

COMPETITORS = ("Brambleton Gauges", "Osterlund Controls", "Kettering Sense", "Pallas Metering", "Vireo Automation")
WORRIES = (
    "moving years of readings out of the old system",
    "training three shifts of operators",
    "the price of spare parts after the first year",
    "how long a repair keeps the line standing still",
    "whether the devices survive our cleaning procedure",
    "getting the installation past our safety officer",
    "depending on one supplier for everything",
    "the time between the order and the first delivery",
)
PERSONAS = (
    "You keep your sentences short and want one clear answer.",
    "You are friendly, a little hurried, and thankful for plain words.",
    "You are careful and like to see that every detail was looked at.",
    "You have a meeting in ten minutes and need the result before it.",
    "You are new in your job and politely unsure of the right terms.",
    "You like numbers better than opinions.",
)
FACTS = (
    ("warranty period", ("24 months", "36 months", "48 months", "60 months")),
    ("operating temperature", ("-10 to 60 degrees", "-25 to 70 degrees", "0 to 50 degrees", "-40 to 85 degrees")),
    ("calibration interval", ("every 6 months", "every 12 months", "every 18 months", "every 24 months")),
    ("housing material", ("stainless steel", "cast aluminium", "glass-filled nylon", "anodised brass")),
    ("power supply", ("12 volts direct current", "24 volts direct current", "a replaceable lithium cell")),
    ("response time", ("40 milliseconds", "120 milliseconds", "250 milliseconds", "500 milliseconds")),
    ("mounting", ("a threaded flange", "a snap-on rail", "four corner screws", "a magnetic foot")),
    ("data interface", ("a four-wire serial line", "a two-wire current loop", "a radio link", "a network socket")),
)
"""What each product's article says, as "label: value."."""
UNSAID = 2
"""How many of these the article of a product is silent about."""
