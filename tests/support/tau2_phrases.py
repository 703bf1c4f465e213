"""What the test agents say: five phrasings of each intent, of which the user was made while reading three only.

The last two of each are held back: nobody looked at how they fare while the user was being built.
"""

from __future__ import annotations

TUNED, HELD_BACK = (0, 1, 2), (3, 4)

PHRASES: dict[str, tuple[str, ...]] = {
    # asking, as questions
    "user_id?": (
        "Could you please tell me your user ID?",
        "What is your user ID?",
        "May I have your user ID, please?",
        "Before we start: which user ID is your profile under?",
        "Happy to help! Would you share the user id of your account with me?",
    ),
    "email?": (
        "What is the email address of your account?",
        "Could you give me your e-mail?",
        "May I have the email you registered with?",
        "Which email is your account under?",
        "To verify you, could I get your email address, please?",
    ),
    "name_zip?": (
        "Could you tell me your first and last name and your zip code?",
        "What is your full name, and what is your ZIP code?",
        "May I have your name and zip, please?",
        "Can I get your full name as well as the zip code we have on file?",
        "Who am I speaking with, and what is your postal code?",
    ),
    "phone?": (
        "What is your phone number?",
        "Could you give me the phone number of your line?",
        "May I have the phone number in question?",
        "Which phone number is this about?",
        "Can you share the mobile number you are calling about?",
    ),
    "details?": (
        "How can I help you today?",
        "What can I do for you?",
        "Could you tell me more about what you need?",
        "What exactly would you like me to take care of?",
        "What seems to be the matter?",
    ),
    # asking, as commands
    "user_id!": (
        "Please provide your user ID so that I can look it up.",
        "I will need your user ID.",
        "Kindly share your user id with me.",
        "To begin, please enter your user ID.",
        "First, I'd need you to give me your user ID.",
    ),
    "email!": (
        "Please provide the email address of your account.",
        "I need your email to find your account.",
        "Kindly state your e-mail address.",
        "Go ahead and give me the email on your profile.",
        "For verification, send me your email address.",
    ),
    "name_zip!": (
        "Please provide your full name and zip code.",
        "I need your first name, last name and ZIP code.",
        "To verify your identity, tell me:\n- your first and last name\n- your zip code",
        "Let me know your name and the zip code on file.",
        "Please state your full name along with your ZIP.",
    ),
    "phone!": (
        "Please provide your phone number.",
        "I need the phone number of your line.",
        "Tell me your phone number.",
        "Kindly state the phone number of the affected line.",
        "Let me have your phone number first.",
    ),
    "details!": (
        "Tell me what I can do for you.",
        "Please describe what you need.",
        "Tell me more about your request.",
        "Let me know what you need in detail.",
        "Please go into more detail about your request.",
    ),
    # asking, with few words
    "user_id.": ("User ID?", "Your user id?", "User id please.", "ID of your user account?", "user ID, please"),
    "email.": ("Email?", "Your e-mail?", "Email please.", "E-mail address?", "your email, please"),
    "name_zip.": ("Name and zip?", "Full name, zip code?", "Name and ZIP please.", "Your name? Your zip?", "name + zip?"),
    "phone.": ("Phone number?", "Your phone number?", "Phone number please.", "Mobile number?", "phone number, please"),
    "details.": ("How can I help?", "What do you need?", "Reason for your call?", "What's it about?", "Your request?"),
    # asking for a decision
    "confirm?": (
        "I would {what}. Do you confirm? (yes/no)",
        "I am going to {what}. Is that okay?",
        "Here is what I will do: {what}.\nShall I proceed?",
        "Just to be certain, you'd like me to {what}, right?",
        "Would you like me to {what}?",
    ),
    "confirm!": (
        "I am ready to {what}. Please confirm with yes.",
        "I can {what}. Reply yes to proceed.",
        "Please confirm that I should {what}.",
        "I'm about to {what}. Let me know with a yes or no.",
        "To {what}, I need your explicit confirmation (yes).",
    ),
    "again?": (
        "Are you sure?",
        "Just to double-check: shall I really go ahead?",
        "This cannot be undone. Do you still want to proceed?",
        "One last time: is that correct?",
        "Do I have your final go-ahead?",
    ),
    "confirm.": ("{what} - ok?", "{what}. Confirm?", "Shall I {what}?", "{what}: yes or no?", "ok to {what}?"),
    # telling
    "narrate": (
        "One moment, I am looking that up for you.",
        "Thank you! Let me check our system.",
        "I appreciate your patience while I work on this.",
        "Bear with me for a second, our system is a little slow today.",
        "Thanks for that. I'm pulling up the records now.",
    ),
    "more?": (
        "Is there anything else I can help you with?",
        "Can I help you with anything else today?",
        "Anything else?",
        "What else can I do for you?",
        "Do you have any other requests?",
    ),
    "bye": (
        "Everything is done. Have a great day!",
        "You are all set. Goodbye!",
        "I'm glad I could help. Take care!",
        "That's all from my side. Thank you for calling, bye!",
        "Your requests are completed. Have a lovely evening.",
    ),
    "done": (
        "I have done it: {past}.",
        "Done! {past}.",
        "Good news: {past}.",
        "That worked, {past}.",
        "{past}, as you wished.",
    ),
    # telling what to do
    "look": (
        "What does the status bar of your phone show?",
        "Please check your status bar and tell me what you see.",
        "Could you look at your phone's status bar?",
        "Can you tell me which icons appear in the status bar?",
        "Have a look at the status bar and report back, please.",
    ),
    "toggle_airplane_mode": (
        "Please turn off airplane mode.",
        "Could you switch airplane mode off?",
        "Go to your settings and toggle airplane mode off.",
        "It looks like airplane mode is active. Please disable it.",
        "I'd like you to take your phone out of airplane mode.",
    ),
    "toggle_roaming": (
        "Please turn on data roaming.",
        "Could you enable roaming on your phone?",
        "Now switch data roaming on.",
        "Since you are abroad, please make sure to turn roaming on.",
        "In your settings, activate data roaming, please.",
    ),
    "toggle_data": (
        "Please turn on mobile data.",
        "Could you enable mobile data on your device?",
        "Switch your mobile data on.",
        "Would you mind turning on your cellular data?",
        "Your mobile data is off. Please turn it on.",
    ),
    "toggle_data_saver_mode": (
        "Please turn off data saver mode.",
        "Could you disable data saver?",
        "Switch Data Saver off, please.",
        "Next, deactivate data saver mode.",
        "You have to turn the data saver off.",
    ),
    "toggle_wifi_calling": (
        "Please turn off Wi-Fi calling.",
        "Could you disable wifi calling?",
        "Switch Wi-Fi Calling off in your settings.",
        "Next, I need you to turn wi-fi calling off.",
        "Wi-Fi calling may be in the way. Can you deactivate it?",
    ),
    "disconnect_vpn": (
        "Please disconnect from your VPN.",
        "Could you turn off the VPN?",
        "Disconnect your VPN now.",
        "A VPN slows you down. Please disconnect it.",
        "I need you to disable the VPN connection.",
    ),
    "reseat_sim_card": (
        "Please reseat your SIM card.",
        "Could you remove the SIM card and put it back in?",
        "Take out your SIM card and re-insert it.",
        "Try reseating the SIM, please.",
        "Next, please eject the SIM card and insert it again.",
    ),
    "reset_apn_settings": (
        "Please reset your APN settings.",
        "Could you reset the APN settings to their defaults?",
        "Now reset the APN settings on your phone.",
        "I'd like you to restore the default APN settings.",
        "Go into your network settings and reset the access point names.",
    ),
    "reboot_device": (
        "Please restart your phone.",
        "Could you reboot your device?",
        "Now reboot the phone.",
        "Would you please power cycle your phone?",
        "Turn your phone off and on again, please.",
    ),
    "set_network_mode_preference": (
        "Please set your network mode to 4G/5G preferred.",
        "Could you change the preferred network type to 4G/5G?",
        "Switch the network mode preference to 5G/4G preferred.",
        "In your settings, choose 4G/5G as network mode.",
        "You should update your network mode preference so that it is 4g_5g_preferred.",
    ),
    "grant_app_permission": (
        "Please grant the {app_name} app the {permission} permission.",
        "Could you allow the {permission} permission for your {app_name} app?",
        "Give your {app_name} app {permission} permission.",
        "The {app_name} app lacks a permission. Please enable {permission} permission for {app_name}.",
        "In the app settings, allow {app_name} access to {permission}.",
    ),
    "make_payment": (
        "I have sent you a payment request. Please pay it.",
        "Could you make the payment for the bill now?",
        "Please accept the payment request.",
        "A request for the overdue bill is on your phone. Would you pay that bill?",
        "Go ahead and complete the payment, please.",
    ),
}
"""Intent -> phrasings. ``?`` asks, ``!`` commands, ``.`` is terse."""

WRITES: dict[str, tuple[str, str]] = {
    "book_reservation": (
        "book {flights} from {origin} to {destination} in {cabin} for {people}, paid with {payments}",
        "your new reservation from {origin} to {destination} is booked",
    ),
    "cancel_reservation": ("cancel reservation {reservation_id}", "reservation {reservation_id} has been cancelled"),
    "send_certificate": (
        "send you a certificate of ${amount}",
        "a certificate of ${amount} has been sent",
    ),
    "update_reservation_baggages": (
        "update reservation {reservation_id} to {total_baggages} checked bags, paid with {payment_id}",
        "the bags of reservation {reservation_id} have been updated",
    ),
    "update_reservation_flights": (
        "change reservation {reservation_id} to {flights} in {cabin}, paid with {payment_id}",
        "the flights of reservation {reservation_id} have been changed",
    ),
    "update_reservation_passengers": (
        "update the passengers of reservation {reservation_id} to {people}",
        "the passengers of reservation {reservation_id} have been updated",
    ),
    "cancel_pending_order": (
        "cancel order {order_id} because of '{reason}'",
        "order {order_id} has been cancelled",
    ),
    "exchange_delivered_order_items": (
        "exchange {item_ids} for {new_item_ids} in order {order_id}, with {payment_method_id}",
        "the exchange in order {order_id} has been processed",
    ),
    "return_delivered_order_items": (
        "return {item_ids} of order {order_id}, refunded to {payment_method_id}",
        "the return of {item_ids} in order {order_id} has been processed",
    ),
    "modify_pending_order_address": (
        "change the shipping address of order {order_id} to {address1}, {address2}, {city}, {state} {zip}",
        "the address of order {order_id} has been changed",
    ),
    "modify_user_address": (
        "change your default address to {address1}, {address2}, {city}, {state} {zip}",
        "your default address has been changed to {address1}",
    ),
    "modify_pending_order_items": (
        "modify order {order_id}: {item_ids} becomes {new_item_ids}, paid with {payment_method_id}",
        "the items of order {order_id} have been modified",
    ),
    "modify_pending_order_payment": (
        "change the payment of order {order_id} to {payment_method_id}",
        "the payment of order {order_id} has been changed",
    ),
    "create_task": ("create the task '{title}' for {user_id}", "the task '{title}' has been created"),
    "update_task_status": ("mark {task_id} as {status}", "{task_id} has been marked as {status}"),
    "refuel_data": ("add {gb_amount} GB of data to your line", "{gb_amount} GB have been added to your data"),
    "enable_roaming": ("enable roaming for your line", "roaming has been enabled on your line"),
    "resume_line": ("resume your line", "your line has been resumed"),
    "send_payment_request": ("send you a payment request for bill {bill_id}", "a payment request has been sent"),
}
"""How each write is offered and reported."""
