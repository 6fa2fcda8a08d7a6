"""Measure every head of a model: metrics, forward passes, rows, roles, tables.

forward_passes                   forward passes with attention captured
report_rows                      measurements as rows and sentences
classification                   roles and findings
map_export                       collect maps for files, with their metadata
head_selection                   which part of the model was measured, and the metric that sorts its heads
metric_selection                 which metrics are measured
report_tables                    views of the report
model_inspection                 the study of a model
prepare_softmax_attention_heads  prepare a model for measuring its heads: find its blocks and attention, and verify
the capture
"""
