// A client in Go, from stubs that protoc makes of proto/pjrtd/v1: the ordinary RPCs in a session, then the same work
// pipelined on one Channel. It checks every value itself and prints what it did.
//
//	go_client HOST:PORT
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "pjrtd-go-client/pjrtd/v1"
)

const (
	smallCount = 4
	largeCount = 5 << 20 / 4 // 5 MiB of f32
	pieceBytes = 1 << 20     // of a stream's messages, which may have 4 MiB
)

// Of the method table, proto/methods.def: frames name methods by number.
const (
	runtimeHello   = 0x0101
	bufferUpload   = 0x0301
	bufferDownload = 0x0302
	bufferStat     = 0x0303
	programCompile = 0x0401
	executeExecute = 0x0501
)

func f32(dims ...int64) *pb.TensorType {
	return &pb.TensorType{Dtype: pb.DType_DTYPE_F32, Dims: dims}
}

// ramp is step, 2 step, 3 step, ...: whole numbers below 2^24, which f32 has exactly.
func ramp(count int, step float32) []float32 {
	values := make([]float32, count)
	for i := range values {
		values[i] = step * float32(i+1)
	}
	return values
}

func toBytes(values []float32) []byte {
	var out bytes.Buffer
	must(binary.Write(&out, binary.LittleEndian, values))
	return out.Bytes()
}

func check(what string, data []byte, want []float32) {
	if !bytes.Equal(data, toBytes(want)) {
		log.Fatalf("%s: %d bytes that are not the %d values expected", what, len(data), len(want))
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func addProgram(count int) []byte {
	return fmt.Appendf(nil, `func.func @main(%%x: tensor<%[1]dxf32>, %%y: tensor<%[1]dxf32>) -> tensor<%[1]dxf32> {
  %%0 = stablehlo.add %%x, %%y : tensor<%[1]dxf32>
  return %%0 : tensor<%[1]dxf32>
}
`, count)
}

// describe is an error as a user wants to see it: the code, the text, and the typed details from the trailing metadata.
func describe(err error, trailer metadata.MD) string {
	text := fmt.Sprintf("%s: %s", status.Code(err), status.Convert(err).Message())
	for _, packed := range trailer.Get("pjrtd-error-bin") {
		var detail pb.Error
		must(proto.Unmarshal([]byte(packed), &detail))
		if argument := detail.GetArgument(); argument != nil {
			text += fmt.Sprintf(" (argument %d: expected %s, actual %s)", argument.Index, argument.Expected, argument.Actual)
		}
	}
	return text
}

// client is a session of ordinary RPCs. The caller chooses ids; each kind goes up.
type client struct {
	buffers     pb.BufferClient
	programs    pb.ProgramClient
	execution   pb.ExecuteClient
	lastBuffer  uint64
	lastProgram uint64
}

func (c *client) upload(ctx context.Context, values []float32) uint64 {
	c.lastBuffer++
	stream, err := c.buffers.Upload(ctx)
	must(err)
	data := toBytes(values)
	request := &pb.UploadRequest{Buffer: c.lastBuffer, Type: f32(int64(len(values))), DataBytes: uint64(len(data))}
	for {
		size := min(len(data), pieceBytes)
		request.Bulk, data = data[:size], data[size:]
		must(stream.Send(request))
		if len(data) == 0 {
			break
		}
		request = &pb.UploadRequest{} // later messages carry bulk and nothing else
	}
	_, err = stream.CloseAndRecv()
	must(err)
	return c.lastBuffer
}

func (c *client) download(ctx context.Context, buffer uint64) []byte {
	stream, err := c.buffers.Download(ctx, &pb.DownloadRequest{Buffer: buffer})
	must(err)
	var data []byte
	for {
		reply, err := stream.Recv()
		if err == io.EOF {
			return data
		}
		must(err)
		data = append(data, reply.Bulk...)
	}
}

func (c *client) compile(ctx context.Context, code []byte) uint64 {
	c.lastProgram++
	stream, err := c.programs.Compile(ctx)
	must(err)
	must(stream.Send(&pb.CompileRequest{Program: c.lastProgram, CodeBytes: uint64(len(code)), Bulk: code}))
	_, err = stream.CloseAndRecv()
	must(err)
	return c.lastProgram
}

func (c *client) execute(ctx context.Context, program uint64, args ...uint64) uint64 {
	c.lastBuffer++
	_, err := c.execution.Execute(ctx, &pb.ExecuteRequest{Program: program, Args: args, Outputs: []uint64{c.lastBuffer}})
	must(err)
	return c.lastBuffer
}

func ordinaryCalls(ctx context.Context, connection *grpc.ClientConn) {
	sessions := pb.NewSessionClient(connection)
	opened, err := sessions.Open(ctx, &pb.SessionOpenRequest{})
	must(err)
	ctx = metadata.AppendToOutgoingContext(ctx, "pjrtd-session", opened.Token)
	c := &client{buffers: pb.NewBufferClient(connection), programs: pb.NewProgramClient(connection),
		execution: pb.NewExecuteClient(connection)}

	for _, count := range []int{smallCount, largeCount} {
		program := c.compile(ctx, addProgram(count))
		x, y := c.upload(ctx, ramp(count, 1)), c.upload(ctx, ramp(count, 2))
		check("the sum", c.download(ctx, c.execute(ctx, program, x, y)), ramp(count, 3))
		check("what was uploaded", c.download(ctx, x), ramp(count, 1))
		fmt.Printf("added %d values\n", count)
	}

	var trailer metadata.MD
	_, err = c.execution.Execute(ctx, &pb.ExecuteRequest{Program: 1, Args: []uint64{1, 4}, Outputs: []uint64{100}}, grpc.Trailer(&trailer))
	if err == nil {
		log.Fatal("an argument of the wrong type was taken")
	}
	fmt.Println("refused:", describe(err, trailer))

	closed, err := sessions.Close(ctx, &pb.SessionCloseRequest{})
	must(err)
	fmt.Printf("closed: %d buffers, %d programs\n", closed.BuffersFreed, closed.ProgramsFreed)
	_, err = c.buffers.Stat(ctx, &pb.BufferRequest{Buffer: 1})
	fmt.Println("after it:", status.Code(err))
}

// batch collects requests for one message of Channel.
type batch struct {
	frames []*pb.Frame
}

func (b *batch) add(method uint32, request proto.Message, bulk []byte) {
	payload, err := proto.Marshal(request)
	must(err)
	b.frames = append(b.frames, &pb.Frame{Call: uint64(len(b.frames) + 1), Method: method, Kind: pb.FrameKind_FRAME_KIND_REQUEST,
		Payload: payload, Bulk: bulk})
}

// pipelined sends a whole chain of calls before it reads one answer.
func pipelined(ctx context.Context, connection *grpc.ClientConn) {
	stream, err := pb.NewRuntimeClient(connection).Channel(ctx)
	must(err)
	code, values := addProgram(smallCount), toBytes(ramp(smallCount, 5))
	var calls batch
	calls.add(runtimeHello, &pb.HelloRequest{MinVersion: 1, MaxVersion: 1, ClientName: "go_client"}, nil)
	calls.add(programCompile, &pb.CompileRequest{Program: 1, CodeBytes: uint64(len(code))}, code)
	calls.add(bufferUpload, &pb.UploadRequest{Buffer: 1, Type: f32(smallCount), DataBytes: uint64(len(values))}, values)
	calls.add(executeExecute, &pb.ExecuteRequest{Program: 1, Args: []uint64{1, 1}, Outputs: []uint64{2}}, nil)
	calls.add(bufferDownload, &pb.DownloadRequest{Buffer: 2}, nil)
	calls.add(bufferStat, &pb.BufferRequest{Buffer: 77}, nil)
	must(stream.Send(&pb.Frames{Frames: calls.frames}))
	must(stream.CloseSend())

	answers := map[uint64]*pb.Frame{}
	for {
		message, err := stream.Recv()
		if err == io.EOF {
			break
		}
		must(err)
		for _, frame := range message.Frames {
			answers[frame.Call] = frame
		}
	}
	for call := uint64(1); call <= 5; call++ {
		if answers[call].GetKind() != pb.FrameKind_FRAME_KIND_REPLY {
			log.Fatalf("call %d: %v", call, answers[call])
		}
	}
	check("the pipelined sum", answers[5].Bulk, ramp(smallCount, 10))
	var failure pb.Error
	must(proto.Unmarshal(answers[6].Payload, &failure))
	fmt.Printf("pipelined 6 calls; call 6: code %d, %s\n", failure.Code, failure.Message)
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: go_client HOST:PORT")
	}
	connection, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	info, err := pb.NewRuntimeClient(connection).Info(ctx, &pb.Empty{})
	must(err)
	fmt.Printf("pjrtd %s on %s\n", info.ServerVersion, info.PlatformName)
	ordinaryCalls(ctx, connection)
	pipelined(ctx, connection)
}
