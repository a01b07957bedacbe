"""A job as a LangGraph thread: one step, which calls a scripted model on loopback, whose URL is in MODEL_URL."""

import asyncio
import operator
import os
from typing import Annotated, TypedDict

import httpx
from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    messages: Annotated[list, operator.add]


client = httpx.AsyncClient()


async def step(state: State) -> dict:
    prompt = state["messages"][-1]
    if prompt == "hold":
        # Act as an agent that never answers, so that accepted messages stay queued.
        await asyncio.sleep(3600)
    answer = await client.post(f"{os.environ['MODEL_URL']}/v1", json={"messages": [prompt]})
    return {"messages": [answer.json()["choices"][0]["message"]["content"]]}


graph = StateGraph(State).add_node("step", step).add_edge(START, "step").add_edge("step", END).compile()
