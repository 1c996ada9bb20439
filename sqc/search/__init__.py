"""Designs compared and improved: expressions of metrics, their derivatives, and a search for the best inputs.

expression (metric.lark)   `1e-6 * C + client.response.mean`, and bounds such as `client.response.p99 <= 0.25`
objective                  its mean over seeds at given inputs, with a standard error
gradient                   its derivatives, by central differences under common random numbers
sampler                    the adapter to Optuna: which inputs to try next
optimise, outcome          the search, and what it ends with
"""
