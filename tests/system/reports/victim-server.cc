// Two workers that parse requests and keep sessions: containers, shared pointers, strings.
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct Session {
	std::string user;
	std::vector<int> items;
	std::map<std::string, std::string> headers;
};

class Cache
{
      public:
	std::shared_ptr<Session> get(const std::string &key)
	{
		std::lock_guard<std::mutex> lock(mutex_);
		auto &session = sessions_[key];

		if (!session) {
			session = std::make_shared<Session>();
			session->user = key + " with a name that is on the heap";
			for (int i = 0; i < 20; i++)
				session->items.push_back(i);
		}
		return session;
	}

      private:
	std::unordered_map<std::string, std::shared_ptr<Session>> sessions_;
	std::mutex mutex_;
};

static Cache cache;
static std::map<int, std::string> answers = { { 200, "a text that is long enough for the heap" } };

static void parse(const std::string &line, Session &session)
{
	std::map<std::string, std::string> headers;

	for (int i = 0; i < 8; i++)
		headers["Header-with-a-long-name-" + std::to_string(i)] = line;
	session.headers = headers;
}

static void work(int number)
{
	for (int i = 0; i < 12000; i++) {
		auto session = cache.get("user" + std::to_string(number * 1000 + i % 1000));
		parse("GET /index/" + std::to_string(i) + " HTTP/1.1 and more of it", *session);
	}
}

int main()
{
	std::vector<std::thread> workers;

	for (int i = 0; i < 2; i++)
		workers.emplace_back(work, i);
	for (auto &worker : workers)
		worker.join();
	std::cout << answers.at(200) << "\n";
}
