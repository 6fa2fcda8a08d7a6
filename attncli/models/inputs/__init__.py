"""What a model reads: one text at a time, never padded.

wanted_input    what is asked for, checked before anything heavy is imported
texts           texts, token ids, random tokens or images as the model's arguments
given_inputs    what a caller of Python gives itself
text_files      files of texts: plain, JSON lines, tables
id_lists        token ids of the command line and of files
tokenizing      the folder's tokenizer
token_texts     what its tokens read
token_ranges    which ids and lengths a model knows
beside_words    what a forward needs beside a text's ids
decoder_inputs  what the decoder of an encoder–decoder reads
shuffled        the same tokens in another order
repeated        random tokens, twice over
made_texts      needles far back, and Markov chains
"""
