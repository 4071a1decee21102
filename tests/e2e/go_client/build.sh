#!/bin/bash
# Builds the Go client: the generators at the versions of go.mod, the code that they make of the .proto files, the program.
# Everything lands in the folder that is the argument; what is committed is main.go, go.mod and go.sum.
#
#   build.sh FOLDER      leaves FOLDER/go_client. Needs go (1.26 or later) and protoc.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
proto=$here/../../../proto
mkdir -p "$1"
cd "$1"
export GOTOOLCHAIN=local GOBIN=$PWD/bin
cp "$here"/{go.mod,go.sum,main.go} .
go install tool # protoc-gen-go, protoc-gen-go-grpc
(cd "$proto" && PATH=$GOBIN:$PATH protoc -I . --go_out="$OLDPWD" --go_opt=paths=source_relative \
  --go-grpc_out="$OLDPWD" --go-grpc_opt=paths=source_relative pjrtd/v1/*.proto)
go vet .
go build -o go_client .
