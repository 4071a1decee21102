"""Options are keywords with types."""

import pjrtd

pjrtd.CompileOptions(replicas=2)  # error: reportCallIssue
pjrtd.CompileOptions(num_replicas="2")  # error: reportArgumentType
pjrtd.Client.create(busy_poll=3)  # error: reportCallIssue
pjrtd.Client.create(timeout="1")  # error: reportArgumentType
pjrtd.deadline("1")  # error: reportArgumentType
