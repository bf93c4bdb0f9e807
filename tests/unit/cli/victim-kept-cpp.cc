// A clean program with streams, a locale, exceptions and threads.
#include <iostream>
#include <locale>
#include <sstream>
#include <thread>

int main()
{
	std::string line;

	std::getline(std::cin, line);
	std::cout << line << std::endl;
	std::wcerr << L"wide" << std::endl;
	std::locale::global(std::locale("C.UTF-8"));
	std::cout.imbue(std::locale());
	std::cout << 3.14 << std::endl;
	std::thread([] { std::ostringstream() << 1; }).join();
	try {
		throw 1;
	} catch (int) {
	}
	return 0;
}
