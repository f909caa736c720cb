"""What the apply door of the model room does beside loading and unloading."""
