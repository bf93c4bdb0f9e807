// Four threads that allocate, throw through frames with destructors, and free what others made.
// Prints counts that do not depend on the order in which the threads run.
#include <atomic>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static constexpr int n_threads = 4;
static constexpr int n_rounds = 5000;

static std::atomic<long> n_destroyed{0};
static std::atomic<long> n_caught{0};

struct Guard {
	std::unique_ptr<std::string> text;

	explicit Guard(int i) : text(new std::string(20 + i % 300, 'x')) {}
	~Guard() { n_destroyed++; }
};

static int descend(int depth, int i)
{
	Guard guard(i);

	if (depth > 0)
		return descend(depth - 1, i) + 1;
	if (i % 3 == 0)
		throw std::runtime_error("round " + std::to_string(i));
	if (i % 7 == 0)
		throw std::bad_alloc();
	return 0;
}

/* Blocks made by one thread and freed by another. */
static std::mutex mailbox_lock;
static std::deque<std::unique_ptr<std::vector<int>>> mailbox;

static void exchange(int i)
{
	std::unique_ptr<std::vector<int>> taken;
	std::lock_guard<std::mutex> lock(mailbox_lock);

	mailbox.push_back(std::make_unique<std::vector<int>>(i % 100 + 1, i));
	if (mailbox.size() > 64) {
		taken = std::move(mailbox.front());
		mailbox.pop_front();
	}
}

static void work(int number, long *sum)
{
	std::map<int, std::string> names;

	for (int i = 0; i < n_rounds; i++) {
		try {
			*sum += descend(i % 10, i + number);
		} catch (const std::exception &) {
			n_caught++;
		}
		names[i % 500] = std::to_string(i);
		exchange(i);
	}
	*sum += static_cast<long>(names.size());
}

int main()
{
	std::vector<std::thread> threads;
	long sums[n_threads] = {};
	long sum = 0;

	for (int i = 0; i < n_threads; i++)
		threads.emplace_back(work, i, &sums[i]);
	for (auto &thread : threads)
		thread.join();
	for (long part : sums)
		sum += part;
	std::printf("sum %ld destroyed %ld caught %ld\n", sum, n_destroyed.load(), n_caught.load());
	return 3;
}
