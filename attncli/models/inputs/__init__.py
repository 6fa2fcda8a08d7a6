"""The inputs of a model: one text at a time, never padded.

input_options             options, checked before any heavy import
requested_inputs          what the options name as the model's arguments; random tokens, images or sounds
text_inputs               texts and token ids as its arguments
padding                   remove padding from one text
split_batch               split a batch
python_api_inputs         inputs given by a Python caller
text_files                files of texts: plain, JSON lines, tables
token_id_lists            token ids of the command line and of files
tokenizing                the folder's tokenizer
token_strings             the text of each token
vocabulary_and_positions  which ids and lengths a model knows
inputs_besides_token_ids  what a forward needs in addition to ids
synthetic_texts           random tokens repeated twice, needles far back, Markov chains, shuffled tokens
model_input               one text, image or sound as the model's keyword arguments
"""
