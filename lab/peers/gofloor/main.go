// The Go floor: the least that a message costs in three mixes written in Go, without links, noise,
// permutation and dead drops. It answers the lines of crates/mezza-lab/measuring/src/rate.rs; its times are
// wall (`floor`) or CPU (`floor-cpu`) nanoseconds a message, all cores at work.
package main

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/curve25519"
	"golang.org/x/crypto/nacl/secretbox"
)

const version = "golang.org/x/crypto v0.0.0-20200602180216-279210d13fed"
const mixes, cell, drop, layer = 3, 256, 16, 48
const warmUp, batches = 1, 5

// One message as the three mixes see it: a key and a box each, every box sealed beforehand.
type message struct {
	key [mixes][32]byte
	box [mixes][]byte
}

var nonce [24]byte

func random() (key [32]byte) {
	rand.Read(key[:])
	return
}

func shared(secret *[32]byte, public *[32]byte) (key [32]byte) {
	z, err := curve25519.X25519(secret[:], public[:])
	if err != nil {
		panic(err)
	}
	copy(key[:], z)
	return
}

func prepare(secrets *[mixes][32]byte) (m message) {
	for i := range secrets {
		x := random()
		p, _ := curve25519.X25519(x[:], curve25519.Basepoint)
		copy(m.key[i][:], p)
		key := shared(&secrets[i], &m.key[i])
		plain := make([]byte, drop+cell+layer*(mixes-1-i))
		m.box[i] = secretbox.Seal(nil, plain, &nonce, &key)
	}
	return
}

// What the mixes do with it: a layer off at each, then a seal at each on the way back.
func run(m *message, secrets *[mixes][32]byte) {
	var keys [mixes][32]byte
	for i := range secrets {
		keys[i] = shared(&secrets[i], &m.key[i])
		if _, ok := secretbox.Open(nil, m.box[i], &nonce, &keys[i]); !ok {
			panic("a box does not open")
		}
	}
	reply := make([]byte, cell)
	for i := mixes - 1; i >= 0; i-- {
		reply = secretbox.Seal(nil, reply, &nonce, &keys[i])
	}
}

func each(count int, work func(int)) {
	var threads sync.WaitGroup
	cores := runtime.NumCPU()
	for at := 0; at < cores; at++ {
		threads.Add(1)
		go func(at int) {
			defer threads.Done()
			for i := at; i < count; i += cores {
				work(i)
			}
		}(at)
	}
	threads.Wait()
}

func cpu() time.Duration {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Minimum and median of nanoseconds a message.
func rate(count int, isCPU bool) (float64, float64) {
	var secrets [mixes][32]byte
	for i := range secrets {
		secrets[i] = random()
	}
	messages := make([]message, count)
	each(count, func(i int) { messages[i] = prepare(&secrets) })
	var costs []float64
	for batch := 0; batch < warmUp+batches; batch++ {
		began, used := time.Now(), cpu()
		each(count, func(i int) { run(&messages[i], &secrets) })
		spent := time.Since(began)
		if isCPU {
			spent = cpu() - used
		}
		if batch >= warmUp {
			costs = append(costs, float64(spent.Nanoseconds())/float64(count))
		}
	}
	sort.Float64s(costs)
	return costs[0], costs[len(costs)/2]
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var op string
		var size, count int
		_, err := fmt.Sscanf(lines.Text(), "rate %s %d %d", &op, &size, &count)
		switch {
		case lines.Text() == "version":
			fmt.Println("ok", version, runtime.Version())
		case err == nil && strings.HasPrefix(op, "floor") && size == cell && 0 < count && count < 1000000:
			min, median := rate(count, op == "floor-cpu")
			fmt.Printf("ok %.1f %.1f\n", min, median)
		default:
			fmt.Println("err not understood:", lines.Text())
		}
	}
}
