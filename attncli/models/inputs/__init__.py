"""What a model reads: one text at a time, never padded.

requested_input  what is asked for, checked before anything heavy is imported
texts            texts, token ids, random tokens or images as the model's arguments
padding          of one text, cut off
single_texts     a batch, taken apart
user_inputs      what a caller of Python gives itself
text_files       files of texts: plain, JSON lines, tables
id_lists         token ids of the command line and of files
tokenizing       the folder's tokenizer
token_texts      what its tokens read
token_ranges     which ids and lengths a model knows
extra_inputs     what a forward needs beside a text's ids
decoder_inputs   what the decoder of an encoder–decoder reads
shuffled         the same tokens in another order
repeated         random tokens, twice over
synthetic_texts  needles far back, and Markov chains
"""
